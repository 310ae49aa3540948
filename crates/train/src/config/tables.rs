//! Declares each table of the configuration once. A macro generates the resolved struct, the patch of a layer, and the
//! comments of the printed file from it, so that they cannot differ.

/// `table! { /// about  Name, NamePatch { /// doc  field: Type = default, ... } { /// doc  sub: Table, TablePatch, ... } }`
macro_rules! table {
    (
        $(#[doc = $about:literal])+
        $name:ident, $patch:ident {
            $( $(#[doc = $doc:literal])+ $field:ident : $type:ty = $default:expr, )+
        } {
            $( $(#[doc = $sub_doc:literal])+ $sub:ident : $sub_name:ident, $sub_patch:ident, )*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: $type, )+
            $( $(#[doc = $sub_doc])+ pub $sub: $sub_name, )*
        }

        #[doc = concat!("One layer's say about [`", stringify!($name), "`]: what is `None` is left to the layers below.")]
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $patch {
            $(
                $(#[doc = $doc])+
                #[serde(skip_serializing_if = "Option::is_none")]
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
            pub(crate) fn fill(self, base: $name) -> $name {
                $name {
                    $( $field: self.$field.unwrap_or(base.$field), )+
                    $( $sub: self.$sub.fill(base.$sub), )*
                }
            }
        }

        impl $name {
            /// Comments of every key of this table, in order.
            pub(crate) const COMMENTS: &[(&str, &[&str])] =
                &[ $( (stringify!($field), &[ $($doc),+ ]) ),+ ];
        }
    };
}
