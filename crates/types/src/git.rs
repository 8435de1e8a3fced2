//! Git: requests and what git said.
