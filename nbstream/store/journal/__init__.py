"""A journal on disk: records that several processes append and that are read in their order."""
