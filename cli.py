"""The bare entry: ``python cli.py grpo --preset 4090`` is ``arcslim grpo --preset 4090``."""

from arcslim.cli.main import main

if __name__ == "__main__":
    main()
