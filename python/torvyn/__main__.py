"""`python -m torvyn`: the command line, without the script on the path."""

from torvyn._cli import main

if __name__ == "__main__":
    main()
