"""The noisy histogram: every answer with noise, where a unit can touch only a few of them."""
