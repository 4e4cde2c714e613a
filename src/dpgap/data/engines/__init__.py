"""Engines that keep the data and count them: `base` has the interface. `sqlite` only reads rows."""
