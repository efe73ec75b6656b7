"""What is wrong with the variables that steer NCCL, Gloo and torch's process groups, said before a process starts."""
