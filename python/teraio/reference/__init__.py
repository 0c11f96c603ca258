"""Shell completion, made from what `--help` is made from.

The C++ command prints the options of its subcommands as JSON (cli/help.h). They become parsers of
argparse, as the subcommands in Python have, and everything here is made from those parsers.
"""
