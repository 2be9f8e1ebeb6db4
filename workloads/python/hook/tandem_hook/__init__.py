"""Tells a harness of the optimizer steps of a program that knows nothing of it, and holds the program between two of them.

What is in here runs inside programs of others, so it imports nothing that they may lack, prints nothing, and raises nothing.
"""

VERSION = "0.1.0"
"""The version of the harness that this belongs to."""
