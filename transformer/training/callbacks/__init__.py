"""What keeps a run safe: where it stands, when it is saved, how it is stopped, and how it goes on. Read `position`."""
