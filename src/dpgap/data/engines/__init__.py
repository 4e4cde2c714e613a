"""Engines that keep the data and count them: `base` says what is asked of one."""
