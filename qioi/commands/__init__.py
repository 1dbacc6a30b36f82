"""The subcommands of ``qioi``, one module each, exposing ``command``."""
