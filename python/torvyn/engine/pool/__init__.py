"""The `pool` engine: several servers behind one engine.

engine       the engine: sends a request to a member, and to another one if that fails at once
members      which member gets a request, and who waits for one
member       one server: its load, its health, what it has done
breaker      keeps requests away from a member that fails
health       asks members whether they are well
membership   members join, leave and are replaced
scaling      when a pool needs one member more or less
ray_members  members that Ray places and restarts
limits       the limits of a pool, validated
"""
