import Testing

@testable import MsgQueue

/// XXH64 compared with the vectors of its specification and of the self-test of its reference implementation.
@Suite struct ChecksumTests {
    private func hash(_ bytes: [UInt8], seed: UInt64 = 0) -> UInt64 { bytes.withUnsafeBytes { Checksum.hash($0, seed: seed) } }

    @Test func the_published_test_strings() {
        #expect(hash([]) == 0xef46_db37_51d8_e999)
        #expect(hash(Array("a".utf8)) == 0xd24e_c4f1_a98c_6e5b)
        #expect(hash(Array("abc".utf8)) == 0x44bc_2cf5_ad77_0999)
    }

    /// The buffer of the self-test.
    private let sample: [UInt8] = {
        var generator: UInt64 = 2_654_435_761
        return (0..<222).map { _ in
            defer { generator = generator &* 11_400_714_785_074_694_797 }
            return UInt8(truncatingIfNeeded: generator >> 56)
        }
    }()

    @Test(
        arguments: [
            (0, 0, 0xef46_db37_51d8_e999), (1, 0, 0xe934_a84a_db05_2768), (3, 0, 0xff7e_1959_cb50_794a), (4, 0, 0x9136_a0dc_a574_57ee),
            (7, 0, 0x6c83_909a_9f01_ed25), (8, 0, 0xcdbc_f538_e71d_1348), (14, 0, 0x8282_dcc4_994e_35c8), (31, 0, 0x299b_39a2_90e6_d783),
            (32, 0, 0x18b2_1649_2bb4_4b70), (33, 0, 0x55c8_dc3e_578f_5b59), (63, 0, 0xa9ef_be0f_a0f3_f4e7), (64, 0, 0xef55_8f8a_cac2_b5cd),
            (65, 0, 0xde0f_20dc_2631_af7a), (100, 0, 0x4bfe_019c_d91d_9ea4), (222, 0, 0xb641_ae8c_b691_c174),
            (0, 2_654_435_761, 0xac75_fda2_929b_17ef), (1, 2_654_435_761, 0x5014_6076_43a9_b4c3),
            (4, 2_654_435_761, 0xcaab_286b_d8e9_fdb5), (14, 2_654_435_761, 0xc3bd_6bf6_3deb_6df0),
            (32, 2_654_435_761, 0xb3f3_3bdf_93ad_e409), (222, 2_654_435_761, 0x20cb_8ab7_ae10_c14a),
        ] as [(Int, UInt64, UInt64)])
    func the_vectors_of_the_reference_implementation(length: Int, seed: UInt64, expected: UInt64) {
        #expect(hash(Array(sample.prefix(length)), seed: seed) == expected)
    }

    @Test func unaligned_bytes_have_the_same_hash() {
        for offset in 1..<8 {
            let shifted = [UInt8](repeating: 0, count: offset) + sample
            shifted.withUnsafeBytes { bytes in
                let part = UnsafeRawBufferPointer(rebasing: bytes[offset...])
                #expect(Checksum.hash(part, seed: 0) == 0xb641_ae8c_b691_c174)
            }
        }
    }

    @Test func every_flipped_bit_changes_the_hash() {
        let whole = hash(sample)
        for index in sample.indices {
            for bit in 0..<8 {
                var flipped = sample
                flipped[index] ^= 1 << UInt8(bit)
                #expect(hash(flipped) != whole)
            }
        }
    }

    @Test func adjacent_values_are_separated() {
        func sum(_ texts: String...) -> Int64 {
            var checksum = Checksum()
            for text in texts { checksum.add(text) }
            return checksum.stored
        }
        #expect(sum("ab", "c") != sum("a", "bc"))
        #expect(sum("a", "b") != sum("b", "a"))
        #expect(sum("a") != sum("a", ""))
        #expect(sum("a") == sum("a"))
    }
}
