import MsgQueue

/// A random number generator (SplitMix64) that returns the same numbers for the same seed on every machine.
public struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var bits: RandomBits

    /// Creates a generator: the same seed gives the same numbers.
    public init(seed: UInt64) {
        // Consecutive seeds must not give overlapping sequences.
        bits = RandomBits(seed: seed &* 0x9e37_79b9_7f4a_7c15 &+ 0x2545_f491_4f6c_dd1d)
    }

    /// Returns the next number.
    public mutating func next() -> UInt64 { bits.next() }

    /// Returns a number in 0..<1.
    public mutating func fraction() -> Double { Double(next() >> 11) / Double(1 << 53) }
}
