"""Tests of the page as a person sees it, compared with what the server has stored.

`python3 main.py PROGRAM FOLDER [--pictures FOLDER] [--web-dir FOLDER] [WORD..]` runs the cases whose name
contains one of the words, or all. What the page looked like is left in FOLDER.
"""

import argparse
import importlib
import pathlib
import signal
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "browser")]

from world import CASES, World, titled  # noqa: E402

MODULES = ["frame", "chat", "stops", "tools", "again", "board", "cord", "restart", "gone", "stalled", "records", "looks", "hands", "keys", "signing", "mounted", "bad", "pictures"]


def main():
    parser = argparse.ArgumentParser()
    for name in ("program", "folder"):
        parser.add_argument(name)
    parser.add_argument("--pictures")
    parser.add_argument("--web-dir")
    parser.add_argument("words", nargs="*")
    given = parser.parse_intermixed_args()
    # However this ends, whatever it started is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for module in MODULES:
        importlib.import_module(f"cases.{module}")
    wanted = [one for one in CASES if not given.words or any(word in titled(one) or word in one.__name__ for word in given.words)]
    if not wanted:
        sys.exit("no case has such a name; there are:\n" + "\n".join(map(titled, CASES)))
    world = World(given.program, given.folder, web=given.web_dir, pictures=given.pictures)
    try:
        failed = [titled(one) for one in wanted if not world.run(one)]
    finally:
        world.end()
    print(f"page: {len(wanted)} cases, {len(failed)} failed" + "".join(f"\n  {name}" for name in failed))
    sys.exit(1 if failed else 0)


main()
