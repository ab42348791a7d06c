"""``python -m commitlog``: the command line."""

from commitlog.ops.cli import main

if __name__ == "__main__":
    main()
