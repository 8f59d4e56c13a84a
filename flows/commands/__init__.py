"""The commands of `glmflow`, one file each; a module's heavy imports wait until its command is the one that is run."""
