//! The macro that declares tables of settings.

/// Declares a table of settings: a struct, its patch, and their rows. [Example](mod@crate::settings).
///
/// The text after `in` is the heading of the options in help. A row is `/// comment`, `name: Type = default`, then
/// attributes, which are methods of [`Row`](crate::settings::Row), and a semicolon. A renamed setting is `name was
/// "old_name": ...`. A second pair of braces lists inner tables as `/// comment`, `name: Table, TablePatch;`. A table
/// with `, omitted_if("Table::function")` is not written if the function returns true. The calling crate needs `serde`.
#[macro_export]
macro_rules! settings {
    (
        $(#[doc = $about:literal])+
        $visibility:vis $name:ident, $patch:ident in $heading:literal {
            $(
                $(#[doc = $doc:literal])+
                $field:ident $(was $old:literal)? : $type:ty = $default:expr
                    $(, $attribute:ident ( $($argument:expr),* $(,)? ))* ;
            )+
        } {
            $(
                $(#[doc = $sub_doc:literal])+
                $sub:ident : $sub_name:ident, $sub_patch:ident $(, omitted_if($omit:literal))? ;
            )*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $visibility struct $name {
            $( $(#[doc = $doc])+ $(#[serde(alias = $old)])? pub $field: $type, )+
            $(
                $(#[doc = $sub_doc])+
                $(#[serde(default, skip_serializing_if = $omit)])?
                pub $sub: $sub_name,
            )*
        }

        #[doc = concat!("Values of one layer for [`", stringify!($name), "`]; `None` leaves a value to lower layers.")]
        #[derive(Debug, Clone, Default, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        $visibility struct $patch {
            $(
                $(#[doc = $doc])+
                #[serde(skip_serializing_if = "Option::is_none" $(, alias = $old)?)]
                pub $field: Option<$type>,
            )+
            $( $(#[doc = $sub_doc])+ pub $sub: $sub_patch, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $( $field: $default, )+
                    $( $sub: $sub_name::default(), )*
                }
            }
        }

        impl $patch {
            /// Returns this layer with the values of `over` on top.
            #[must_use]
            pub fn merged(self, over: Self) -> Self {
                Self {
                    $( $field: over.$field.or(self.$field), )+
                    $( $sub: self.$sub.merged(over.$sub), )*
                }
            }

            /// Returns `base` with the values of this layer.
            pub fn fill(self, base: $name) -> $name {
                $name {
                    $( $field: self.$field.unwrap_or(base.$field), )+
                    $( $sub: self.$sub.fill(base.$sub), )*
                }
            }
        }

        impl $crate::settings::Table for $name {
            type Patch = $patch;

            const ROWS: &'static [$crate::settings::Row] = &[ $(
                $crate::settings::Row::new(
                    stringify!($field),
                    &[ $($doc),+ ],
                    <$type as $crate::settings::Setting>::KIND,
                )
                .heading($heading)
                $(.old_name($old))?
                $(.$attribute($($argument),*))*
            ),+ ];

            const TABLES: &'static [$crate::settings::Inner] = &[ $(
                $crate::settings::Inner {
                    name: stringify!($sub),
                    about: &[ $($sub_doc),+ ],
                    rows: <$sub_name as $crate::settings::Table>::ROWS,
                }
            ),* ];

            fn add_numbers(&self, table: &'static str, list: &mut Vec<$crate::settings::Entry>) {
                let mut rows = Self::ROWS.iter();
                $(
                    if let Some(row) = rows.next() {
                        let key = $crate::settings::Key { table, row };
                        $crate::settings::Setting::numbers(&self.$field, &mut |label, number| {
                            list.push($crate::settings::Entry { key, label, number });
                        });
                    }
                )+
                $( self.$sub.add_numbers(stringify!($sub), list); )*
            }

            fn each_steps(&mut self, visit: &mut dyn FnMut(&$crate::settings::Row, &mut u32)) {
                let mut rows = Self::ROWS.iter();
                $(
                    if let (Some(row), Some(steps)) =
                        (rows.next(), $crate::settings::Setting::as_steps(&mut self.$field))
                    {
                        visit(row, steps);
                    }
                )+
                $( self.$sub.each_steps(visit); )*
            }

            fn picked(&self, keep: &dyn Fn(&$crate::settings::Row) -> bool) -> $patch {
                let mut rows = Self::ROWS.iter();
                $patch {
                    $( $field: rows.next().is_some_and(keep).then(|| self.$field.clone()), )+
                    $( $sub: self.$sub.picked(keep), )*
                }
            }
        }

        impl $crate::settings::Patch for $patch {
            fn set(&mut self, key: &str, text: &::std::ffi::OsStr) -> ::std::result::Result<(), String> {
                match key.split_once('.') {
                    $( Some((stringify!($sub), key)) => return self.$sub.set(key, text), )*
                    _ => {}
                }
                match key {
                    $( stringify!($field) => {
                        self.$field = Some($crate::settings::Setting::from_os(text)?);
                    } )+
                    _ => return Err(format!("there is no setting {key}")),
                }
                Ok(())
            }

            fn clear(&mut self, drop: &dyn Fn(&$crate::settings::Row) -> bool) {
                let mut rows = <$name as $crate::settings::Table>::ROWS.iter();
                $(
                    if rows.next().is_some_and(drop) {
                        self.$field = None;
                    }
                )+
                $( self.$sub.clear(drop); )*
            }
        }
    };
}
