"""HTTP for every room that serves it: connections, access, bodies, routes and answers."""
