// Dispatches whose workgroups the GPU counts itself: entries of the buffer `groups`, three counts of workgroups each;
// the fourth word is free. `shared/entries`, which is generated from the declarations of passes, has the numbers of the
// entries.

#import shared/flat_groups
#import shared/entries
