"""How a verdict is reached: what a proposal's names mean, what it touches, what that conflicts with."""
