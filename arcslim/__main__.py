"""``python -m arcslim``."""

from arcslim.cli.main import main

if __name__ == "__main__":
    main()
