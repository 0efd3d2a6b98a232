"""`python -m posthaste_lab` is the program `posthaste-lab`."""

from posthaste_lab.cli import main

main()
