"""The commands, one file each, and the code that they share."""
