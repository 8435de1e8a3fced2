//! Files: what is there, what is to be done with it.
