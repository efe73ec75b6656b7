"""Runs as jobs of Slurm: the sbatch file, checked before it is submitted."""
