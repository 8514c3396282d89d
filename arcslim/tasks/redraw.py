"""``python -m arcslim.tasks.redraw PROGRAM TARGET``: run a program anew, in a process that knows nothing of the run.

``PROGRAM`` is a text file with the program, ``TARGET`` a JSON file with ``blank`` and ``image``, lists of rows. Prints
``{"image", "accuracy"}`` as JSON, and ends with 0 where it drew the target, 3 where it is another image, 2 where the
program is refused. (1 is Python's own, where it fails.)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from arcslim.tasks.drawing import DrawingRefused
from arcslim.tasks.drawing_choice import pixel_accuracy, same_image
from arcslim.tasks.drawing_parse import parse_program
from arcslim.tasks.grid import Grid

ANOTHER = 3


def main(arguments: Sequence[str]) -> int:
    """Draw, print and compare; the exit code."""
    source, wanted = (Path(name).read_text(encoding="utf-8") for name in arguments)
    given = json.loads(wanted)
    try:
        image = parse_program(source).run(Grid(given["blank"]).cells)
    except DrawingRefused as error:
        print(f"refused: {error.words}")
        return 2
    target = Grid(given["image"]).cells
    print(json.dumps({"image": image.tolist(), "accuracy": pixel_accuracy(image, target)}))
    return 0 if same_image(image, target) else ANOTHER


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
