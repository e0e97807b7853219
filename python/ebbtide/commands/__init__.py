"""What the program `ebbtide` starts: `python -m ebbtide.commands.capture`, and so on."""
