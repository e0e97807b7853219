"""What the user's Python code reads and writes while a step is captured. Begin reading with notes.py."""
