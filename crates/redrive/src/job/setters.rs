//! Methods of builders.

/// Declares methods that change a builder and return it: `pub fn limit(self, limit: u64) => self.limit = Some(limit);`.
macro_rules! setters {
    ($($(#[$about:meta])* $seen:vis fn $name:ident($this:ident $(, $value:ident: $type:ty)*) => $change:expr;)*) => {$(
        $(#[$about])*
        $seen fn $name(mut $this $(, $value: $type)*) -> Self {
            $change;
            $this
        }
    )*};
}
pub(crate) use setters;
