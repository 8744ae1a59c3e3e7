"""Sets of real Redis or Valkey servers on loopback: three sentinels with three servers, and a cluster of six."""
