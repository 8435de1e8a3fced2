//! Egress: what a sandbox may reach outside, decided here and nowhere else.
