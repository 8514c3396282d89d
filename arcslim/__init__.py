"""arcslim: reinforcement learning and fine-tuning of reasoning models on ARC, on one GPU."""

__version__ = "0.1.0"
