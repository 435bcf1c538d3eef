//! The statements: each is valid, documented, and has the plan it relies on.
