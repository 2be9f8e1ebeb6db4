"""Reports the optimizer steps of an unmodified program to a harness, and holds the program between steps.

This package runs inside users' programs, so it imports nothing that they may lack, prints nothing, and raises nothing.
"""

VERSION = "0.1.0"
"""The version of the harness that this belongs to."""
