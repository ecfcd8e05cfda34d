"""Fourth floor: from matches to a ranked diagnosis with a corrected command."""
