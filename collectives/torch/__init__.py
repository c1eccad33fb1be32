"""PyTorch: `torch.distributed` as a communicator, and a hook for DistributedDataParallel."""
