//! Bits, and the Huffman codes that lossless WebP shares with deflate: canonical, at most 15 bits, stored as lengths.

/// Bit writer, lowest bit first.
#[derive(Default)]
pub(super) struct Bits {
    bytes: Vec<u8>,
    pending: u64,
    count: u32,
}

impl Bits {
    /// Appends the lowest `count` bits, at most 32.
    pub(super) fn put(&mut self, bits: u32, count: u32) {
        self.pending |= u64::from(bits) << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.pending as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push(self.pending as u8);
        }
        self.bytes
    }
}

/// Huffman code by symbol.
pub(super) struct Code {
    /// Bits of each symbol, 0 if it does not occur.
    lengths: Vec<u8>,
    /// Word, first bit lowest, and its length; a lone symbol has a word of no bits.
    pub words: Vec<(u16, u8)>,
}

impl Code {
    /// Builds the code for symbols with these counts, with words of at most `longest` bits.
    pub(super) fn from_counts(counts: &[u32], longest: u8) -> Self {
        let mut counts = counts.to_vec();
        let mut lengths = lengths(&counts);
        // Flatter counts have shorter words.
        while lengths.iter().any(|&length| length > longest) {
            counts
                .iter_mut()
                .filter(|c| **c > 0)
                .for_each(|c| *c = *c / 2 + 1);
            lengths = self::lengths(&counts);
        }
        let words = words(&lengths);
        Self { lengths, words }
    }
}

/// Computes the lengths of the words of Huffman's code; 1 for a lone symbol.
fn lengths(counts: &[u32]) -> Vec<u8> {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;
    let mut lengths = vec![0u8; counts.len()];
    // Nodes: symbols, then pairs; in the end each node has a parent.
    let mut heap: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    for (symbol, &count) in counts.iter().enumerate().filter(|(_, c)| **c > 0) {
        heap.push(Reverse((u64::from(count), symbol)));
    }
    if heap.len() == 1 {
        if let Some(Reverse((_, symbol))) = heap.pop() {
            lengths[symbol] = 1;
        }
        return lengths;
    }
    let mut parents = vec![usize::MAX; counts.len()];
    while let (Some(Reverse(a)), Some(Reverse(b))) = (heap.pop(), heap.pop()) {
        let node = parents.len();
        parents.push(usize::MAX);
        parents[a.1] = node;
        parents[b.1] = node;
        heap.push(Reverse((a.0 + b.0, node)));
        if heap.len() == 1 {
            break;
        }
    }
    for (symbol, length) in lengths.iter_mut().enumerate() {
        let mut node = symbol;
        while counts[symbol] > 0 && parents[node] != usize::MAX {
            node = parents[node];
            *length = length.saturating_add(1);
        }
    }
    lengths
}

/// Computes canonical words: shorter first, then by symbol; reversed, because they are read from their first bit.
fn words(lengths: &[u8]) -> Vec<(u16, u8)> {
    let mut words = vec![(0u16, 0u8); lengths.len()];
    if lengths.iter().filter(|l| **l > 0).count() < 2 {
        return words;
    }
    let mut next = 0u32;
    for length in 1..=15u8 {
        for symbol in (0..lengths.len()).filter(|&s| lengths[s] == length) {
            let word = (next as u16).reverse_bits() >> (16 - length);
            words[symbol] = (word, length);
            next += 1;
        }
        next <<= 1;
    }
    words
}

/// Order of the lengths of the lengths' code in the file.
const ORDER: [usize; 19] = [
    17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
];

/// Writes a code.
pub(super) fn write_code(bits: &mut Bits, code: &Code) {
    let used: Vec<usize> = (0..code.lengths.len())
        .filter(|&s| code.lengths[s] > 0)
        .collect();
    if used.len() <= 1 && used.first().is_none_or(|&s| s < 256) {
        // Simple: one symbol of 8 bits.
        bits.put(1, 1);
        bits.put(0, 1);
        bits.put(1, 1);
        bits.put(used.first().copied().unwrap_or(0) as u32, 8);
        return;
    }
    bits.put(0, 1);
    let runs = runs(&code.lengths);
    let mut counts = [0u32; 19];
    runs.iter()
        .for_each(|&(symbol, _, _)| counts[usize::from(symbol)] += 1);
    let lengths = Code::from_counts(&counts, 7);
    let last = ORDER
        .iter()
        .rposition(|&s| lengths.lengths[s] > 0)
        .unwrap_or(0)
        .max(3);
    bits.put(last as u32 - 3, 4);
    for &symbol in &ORDER[..=last] {
        bits.put(lengths.lengths[symbol].into(), 3);
    }
    // The number of lengths equals the number of symbols.
    bits.put(0, 1);
    for (symbol, extra, extra_bits) in runs {
        let (word, length) = lengths.words[usize::from(symbol)];
        bits.put(word.into(), length.into());
        bits.put(extra, extra_bits);
    }
}

/// Encodes lengths with their repeats: a symbol, and bits with the number of repeats.
fn runs(lengths: &[u8]) -> Vec<(u8, u32, u32)> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < lengths.len() {
        let value = lengths[at];
        let mut left = lengths[at..].iter().take_while(|&&l| l == value).count();
        at += left;
        if value > 0 {
            out.push((value, 0, 0));
            left -= 1;
        }
        while left > 0 {
            let (symbol, least, most, extra) = match (value, left) {
                (0, 11..) => (18, 11, 138, 7),
                (0, 3..) => (17, 3, 10, 3),
                (_, 3..) if value > 0 => (16, 3, 6, 2),
                _ => (value, 1, 1, 0),
            };
            let taken = left.min(most);
            out.push((symbol, (taken - least) as u32, extra));
            left -= taken;
        }
    }
    out
}
