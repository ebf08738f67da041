"""Training on Lightning Fabric. Read `loop`, then `module` and `loss`; `train` makes a whole run of them."""
