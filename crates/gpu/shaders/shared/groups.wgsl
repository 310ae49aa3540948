// Dispatches whose workgroups the GPU counts itself: entries of the buffer `groups`, three counts of
// workgroups each, the fourth word is free. Their numbers are in `shared/entries`, which is made of what
// passes declare.

#import shared/flat_groups
#import shared/entries
