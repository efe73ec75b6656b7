"""A config-first PyTorch trainer that computes while gradients travel."""

__version__ = "0.1.0"
