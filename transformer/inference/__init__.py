"""From a trained model to translations: no Lightning. Read `translator`, then `search`."""
