//! Ids: numbers of the database, which people write too.

macro_rules! ids {
    ($($(#[$about:meta])* $name:ident = $noun:literal;)*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i64);

        impl $name {
            /// Wraps a number from the database or from a command line.
            pub fn new(id: i64) -> $name {
                $name(id)
            }

            /// Returns the number.
            pub fn get(self) -> i64 {
                self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::error::Error;

            fn from_str(text: &str) -> $crate::error::Result<$name> {
                match text.parse() {
                    Ok(id) if id > 0 => Ok($name(id)),
                    Ok(_) | Err(_) => Err($crate::error::Error::invalid(format!(
                        concat!("`{}` is not the id of a ", $noun, "; ids are positive numbers"),
                        text.escape_debug()
                    ))),
                }
            }
        }
    )*};
}
pub(crate) use ids;
