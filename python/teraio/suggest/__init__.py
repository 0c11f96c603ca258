"""`teraio suggest`: how to train a script on this machine, and the `teraio run` line for it.

A dry run tells what the script needs (command), this machine tells what it has (device, drives),
and the planner tells what that makes of a step (prediction). Nothing here is measured on the
script itself.
"""
