"""Tests of what is known of correspondents."""
