"""The command line that the scripts share. The only room that knows Hydra, besides scripts/."""
