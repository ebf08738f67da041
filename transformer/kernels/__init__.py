"""What torch does too slowly or with too much memory, written anew; tested against torch. Imports nothing of ours."""
