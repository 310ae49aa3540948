// All lenses in one form; see `engine::LensForm`. The struct is `layout::Lens`.
#import shared/struct_lens
