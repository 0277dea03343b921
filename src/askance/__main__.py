"""The command line as `python -m askance`."""

from askance.cli.main import main

if __name__ == "__main__":
    main()
