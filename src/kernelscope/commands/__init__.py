"""The commands, one short module each."""
