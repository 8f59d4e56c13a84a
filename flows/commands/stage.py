"""`glmflow stage`: one stage in this process, exactly as `python -m stages` runs it in a container."""

import argparse


def run(args: argparse.Namespace) -> int:
    """Run the stage; returns its exit code."""
    from stages.__main__ import main

    return main([args.name, "--spec", str(args.spec)])
