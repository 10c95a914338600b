"""Where the package lies: frames of its files are not lines of a program."""

# mypy: ignore-errors
import os

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep
