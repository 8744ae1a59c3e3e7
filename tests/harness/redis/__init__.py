"""Real Redis or Valkey servers: one, a primary and replica, sentinels, a cluster; and faults before them."""
