"""What Hydra calls of a sweep.

Hydra takes plugins from this namespace only. It imports the modules in it at every start, and runs those twice that one
of them imports from another, unless their name begins with an underscore. So that is where the plugins are, and they
import what they need of the trainer when there is a sweep.
"""
